"""What is deployed: state, lock, queue, files, and how each kind of resource is read and written."""
