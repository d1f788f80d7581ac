"""Who used how many tokens of which model, and what that cost."""
