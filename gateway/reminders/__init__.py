"""Reminders: model, text, service, the clock tool, and answers held open for them."""
