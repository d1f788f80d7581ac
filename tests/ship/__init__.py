"""What is shipped: packages, container, service, completions, and the papers that go with them."""
