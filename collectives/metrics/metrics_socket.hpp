#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <memory>
#include <string>

#include <sinew/core/base/export.hpp>
#include <sinew/core/net/acceptor.hpp>
#include <sinew/core/net/event_loop.hpp>
#include <sinew/core/system/file_descriptor.hpp>
#include <sinew/core/system/fork_count.hpp>

namespace sinew {

/// A Unix socket that answers HTTP requests "GET /metrics", one for each connection. A client has five seconds.
/// The socket's file goes with the object, unless another process has replaced it.
/// Thread: the loop's.
class SINEW_API MetricsSocket {
 public:
  /// `text`: makes the answer.
  /// Errors: Error{InvalidArgument} for a path that is too long; Error{System} if a process listens at the path, or if
  ///         the path cannot be made. A socket file at which no process listens is replaced.
  MetricsSocket(EventLoop& loop, std::string path, std::function<std::string()> text);
  ~MetricsSocket();
  MetricsSocket(const MetricsSocket&) = delete;
  MetricsSocket& operator=(const MetricsSocket&) = delete;

 private:
  class Client;

  FileDescriptor listen();
  void take(FileDescriptor socket);
  void drop(const Client& client);

  const ForkMark fork_;
  EventLoop& loop_;
  std::string path_;
  std::function<std::string()> text_;
  dev_t device_ = 0;  // of the socket's file; with its number
  ino_t number_ = 0;
  std::list<std::unique_ptr<Client>> clients_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace sinew
