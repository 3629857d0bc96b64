#pragma once

#include <memory>
#include <optional>

#include "call.hpp"
#include "python.hpp"

namespace sinew::python {

/// The class Work of Python: a call in flight, and later its end.
class PyWork {
 public:
  /// `call` has been started.
  explicit PyWork(std::shared_ptr<Call> call);
  ~PyWork();
  PyWork(const PyWork&) = delete;
  PyWork& operator=(const PyWork&) = delete;

  bool done();
  bool test();
  /// Returns false if `timeout` passes first.
  bool wait(nb::handle timeout);
  int source();
  void then(nb::callable run);
  void order(nb::handle stream, int device);
  bool ends_by_itself() const noexcept { return !single_; }

 private:
  /// Keeps the result and frees the arrays. Precondition: a Turn lives.
  void settle(const Status& status);
  void raise();
  void forget();
  /// The call of a World that has ended.
  bool ended_with_world();

  const bool single_;
  std::shared_ptr<Call> call_;  ///< the Session may wait for it, too
  bool used_ = false;           ///< a thread waits
  Status status_;
  std::exception_ptr thrown_;  ///< by the user's reduction
  int source_ = -1;
};

void bind_work(nb::module_& m);

}  // namespace sinew::python
