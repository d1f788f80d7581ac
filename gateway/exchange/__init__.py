"""One client request until its answer ends: the machine decides, the runner performs."""
