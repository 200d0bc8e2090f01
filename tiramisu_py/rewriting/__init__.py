"""From algorithms to algorithms: derivatives. Nothing here knows of programs, orders or schedules."""
