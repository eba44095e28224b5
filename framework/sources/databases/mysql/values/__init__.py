"""Values of MySQL and MariaDB: types, and conversions to Arrow."""
