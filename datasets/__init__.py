"""What is known of each data set: `registry.json` says where from, `prepare` how to read it."""
