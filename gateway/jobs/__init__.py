"""Jobs: model, schedule, service, scheduler, runs, and results brought back."""
