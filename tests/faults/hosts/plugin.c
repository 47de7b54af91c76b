/* A plugin of linking.c: calls back, so that its frames are on the stack of a CUDA call. */
__attribute__((visibility("default"))) void plugin_pair(void (*call)(void));
static volatile int calls;

void plugin_pair(void (*call)(void))
{
    call();
    calls++;
}
