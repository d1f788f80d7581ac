"""When a job is due: fields, cron expressions, and plain words. Pure."""
