// A shared object that is no module.
extern "C" __attribute__((visibility("default"))) int planted_answer() { return 42; }
