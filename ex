started
