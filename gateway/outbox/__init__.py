"""What waits for sessions that are not asking: the queue, the inbox, events, webhooks."""
