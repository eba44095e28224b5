"""The Spark session while modules declare: registered functions, handled SQL, and refused calls."""
