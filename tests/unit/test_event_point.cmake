ration_take(${RATION_TEST} hook/event_point)
