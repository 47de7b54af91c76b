/* Who keeps what, at an inspection. */
