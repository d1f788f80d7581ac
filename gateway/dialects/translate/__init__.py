"""Saying in one dialect what was said in another: requests one way, answers the other."""
