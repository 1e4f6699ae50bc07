"""What people build on timers: maps whose entries expire, queues whose items come out when they are due."""
