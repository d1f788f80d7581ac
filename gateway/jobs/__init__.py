"""Jobs: model, schedule, service, scheduler, runs, and the return of results."""
