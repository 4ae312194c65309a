"""HTTP and the clock: routes, authentication, the service behind them, the publisher, and ``serve``."""
