"""What waits for sessions without a current request: the queue, the inbox, events, webhooks."""
