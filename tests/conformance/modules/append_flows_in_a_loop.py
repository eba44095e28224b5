from framework import pipelines as dp

dp.create_streaming_table("orders")

for region in ["north", "south"]:

    @dp.append_flow(target="orders", name=f"from_{region}")
    def query(region=region):
        return spark.readStream.table(f"{region}_source")
