/* A plugin that brings a library which looks for what comes next. */
void asker_ask(const char *who);
void (*volatile next_outer)(const char *) = asker_ask;
