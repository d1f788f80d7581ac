"""Directives in user text, `<**…**>`: found, taken out, and remembered."""
