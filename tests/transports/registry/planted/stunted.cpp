// The name of an entry, but less than one.
extern "C" __attribute__((visibility("default"))) const char sinew_module_entry;
const char sinew_module_entry = 1;
