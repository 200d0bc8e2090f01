"""MPI: messages between ranks, the communicator that a function takes, and the runtime under both."""
