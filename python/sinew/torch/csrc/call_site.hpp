#pragma once

#include <atomic>
#include <optional>
#include <string>

namespace sinew::torch_backend::call_site {

/// Whether each call is named by the line of Python that makes it: Config::python_sites. It then takes Python's lock.
extern std::atomic<bool> wanted_at_each_call;

/// Lines of files below this folder are passed over: they are torch's own.
void set_library_folder(std::string folder);

/// The line of Python that is being executed by this thread, such as "train.py:30", without the lines of the
/// library folder. Takes Python's lock. The text is kept until the process ends.
const char* find();

/// The same for another thread, by Python's number of it. None if it executes no Python, or only the library's.
std::optional<std::string> of_thread(unsigned long thread);

/// What CallOptions::label of a call is to be; null: nothing.
inline const char* label() {
  if (!wanted_at_each_call.load(std::memory_order_relaxed)) [[likely]]
    return nullptr;
  return find();
}

}  // namespace sinew::torch_backend::call_site
