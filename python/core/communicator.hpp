#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "call.hpp"
#include "python.hpp"
#include "work.hpp"

namespace sinew::python {

/// The class Communicator of Python.
class PyCommunicator {
 public:
  explicit PyCommunicator(std::shared_ptr<Members> members) noexcept : members_(std::move(members)) {}
  const std::shared_ptr<Members>& members() const noexcept { return members_; }

 private:
  std::shared_ptr<Members> members_;
};

/// Two manners of a call: a method that returns when the call has ended, and one that returns a Work.
struct Now {
  static constexpr bool kWaits = true;
  using Result = void;
};
struct Later {
  static constexpr bool kWaits = false;
  using Result = std::unique_ptr<PyWork>;
};

/// Makes a call in one of the manners. `body(call)` takes the arguments and returns `start(waits_at_once)`, which
/// returns the Work.
template <class Manner, class Body>
typename Manner::Result make_call(const PyCommunicator& self, const char* name, Body&& body) {
  if constexpr (Manner::kWaits) {
    Call call(name, self.members());
    auto start = body(call);
    run_now(call, start);
  } else {
    auto call = std::make_shared<Call>(name, self.members());
    auto start = body(*call);
    start_now(*call, start);
    return std::make_unique<PyWork>(std::move(call));
  }
}

// Each binds methods of the class.
using CommunicatorClass = nb::class_<PyCommunicator>;
void bind_collectives(CommunicatorClass& c);
void bind_v_forms(CommunicatorClass& c);
void bind_messages(nb::module_& m, CommunicatorClass& c);
void bind_plans(nb::module_& m, CommunicatorClass& c);
void bind_groups(nb::module_& m, CommunicatorClass& c);

}  // namespace sinew::python
