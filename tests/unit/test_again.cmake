ration_take(${RATION_TEST} hook/again)
