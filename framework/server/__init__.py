"""`sluice serve`: the server with its REST API, and the engines that it starts; its process loads no Spark."""
