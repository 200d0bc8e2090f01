"""Random programs by the hundred thousand: processes that judge them, what they find, and the state to go on from."""
