// A module whose library is not there when it is loaded.
extern "C" int planted_answer();
extern "C" __attribute__((visibility("default"))) int planted_question() { return planted_answer(); }
