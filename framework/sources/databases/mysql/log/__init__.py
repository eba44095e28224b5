"""The binary log of MySQL and MariaDB: events, rows, transactions and positions."""
