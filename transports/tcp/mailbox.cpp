#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

#include <sinew/core/error.hpp>
#include <sinew/transports/tcp/mailbox.hpp>

namespace sinew::tcp {

Mailbox::Mailbox(Poller& poller) : poller_(poller), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!wake_) throw_errno("tcp: eventfd");
  if (const int error = poller_.add(wake_.get(), *this, false); error != 0)
    throw_errno("tcp: watching an eventfd", error);
}

Mailbox::~Mailbox() { poller_.remove(wake_.get(), *this); }

void Mailbox::post(Call call) {
  const std::scoped_lock lock(mutex_);
  calls_.push_back(std::move(call));
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_.get(), &one, sizeof one));
}

void Mailbox::make_calls() {
  full_ = false;
  std::vector<Call> calls;
  {
    const std::scoped_lock lock(mutex_);
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake_.get(), &count, sizeof count));
    calls.swap(calls_);
  }
  for (Call& call : calls) call();
}

}  // namespace sinew::tcp
