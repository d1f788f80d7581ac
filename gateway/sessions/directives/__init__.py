"""Directives in user text, `<**…**>`: found, removed, and remembered."""
