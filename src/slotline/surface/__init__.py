"""The HTTP surface: routes, errors in the shape of each dialect, streams to the client."""
