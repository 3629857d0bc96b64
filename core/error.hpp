#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sinew/core/base/export.hpp>

namespace sinew {

/// Why something did not happen. Callers branch on this; people read the message beside it.
enum class Code : std::uint8_t {
  Ok,
  Pending,          ///< not finished yet; nothing has failed
  InvalidArgument,  ///< the caller's mistake: the message names the argument, what was found and what was expected
  Unavailable,      ///< cannot be had on this machine or in this build; the message says why
  Truncated,        ///< a message was longer than the buffer that was posted for it
  Cancelled,        ///< a message that its sender or receiver took back before it was delivered
  Timeout,          ///< a deadline passed; the message names who did not come
  PeerLost,         ///< a process of the job is gone; rank() says which, -1: one of another communicator
  Mismatch,         ///< ranks made different calls; the message shows both
  Aborted,          ///< somebody ended the communicator or the world; the message is the first reason
  System,           ///< the operating system refused; the message has its text
};

SINEW_API std::string_view name_of(Code code) noexcept;

/// Thrown by constructors, factories and by Work::get(); nothing half made is left behind.
class SINEW_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message, int rank = -1) : std::runtime_error(message), code_(code), rank_(rank) {}

  Code code() const noexcept { return code_; }
  /// The rank (in the communicator concerned) that the error is about, or -1.
  int rank() const noexcept { return rank_; }

 private:
  Code code_;
  int rank_;
};

/// Outcome of an operation in flight. Ok and Pending carry nothing and cost nothing; a failure carries its message.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string message, int rank = -1)
      : code_(code), rank_(rank), message_(std::make_shared<const std::string>(std::move(message))) {}
  static Status pending() noexcept {
    Status s;
    s.code_ = Code::Pending;
    return s;
  }

  bool ok() const noexcept { return code_ == Code::Ok; }
  Code code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }
  std::string_view message() const noexcept { return message_ ? std::string_view(*message_) : std::string_view(); }
  /// Throws Error unless ok.
  void require() const {
    if (code_ != Code::Ok) throw_error();
  }

 private:
  [[noreturn]] SINEW_API void throw_error() const;

  Code code_ = Code::Ok;
  int rank_ = -1;
  std::shared_ptr<const std::string> message_;
};

/// Converts an exception to a Status. An Error gives its code, text and rank. Another exception gives System.
SINEW_API Status status_of(const std::exception& e);

/// Error{System} with errno's text: "what: No such file or directory".
[[noreturn]] SINEW_API void throw_errno(std::string_view what, int error_number);
[[noreturn]] SINEW_API void throw_errno(std::string_view what);

}  // namespace sinew
