from framework import pipelines as dp


@dp.on_event_hook
def every(event):
    print(event["id"])


@dp.on_event_hook(max_allowable_consecutive_failures=2)
def careful(event):
    raise ValueError(event["event_type"])
