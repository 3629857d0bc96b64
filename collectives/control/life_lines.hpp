#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <sinew/core/net/control_thread.hpp>
#include <sinew/core/net/dialer.hpp>
#include <sinew/core/net/socket.hpp>

namespace sinew {

/// A connection's end that this process keeps without a descriptor: a mapping of the socket, which a fork's child does
/// not inherit. The kernel closes the connection when the process's memory goes, whatever descriptors its children
/// hold. Where the kernel maps no sockets, the descriptor stays, and PrivateDescriptors keeps it from children.
class LifeLine {
 public:
  LifeLine(int peer, Socket socket);
  ~LifeLine();
  LifeLine(const LifeLine&) = delete;
  LifeLine& operator=(const LifeLine&) = delete;

  int peer() const noexcept { return peer_; }
  /// Once epoll knows the socket: from now on the mapping alone holds it, where there is one.
  void let_go_of_descriptor() noexcept;

 private:
  int peer_;
  void* mapping_ = nullptr;
  Socket socket_;  // empty if the mapping holds the connection
};

/// Connections that carry nothing. Each joins the processes of two ranks on different hosts, and ends in order only
/// when one of the processes has ended: then its kernel sends a FIN. A process that is stopped or computes sends none,
/// and a network that fails sends none. Thread: the control thread.
class LifeLines {
 public:
  using Ended = std::function<void(int world_rank)>;

  /// `ended`: the kernel of that rank says that its process has ended, or has left the World.
  LifeLines(ControlThread& thread, Ended ended);
  ~LifeLines();
  LifeLines(const LifeLines&) = delete;
  LifeLines& operator=(const LifeLines&) = delete;

  /// True if there is a connection to the rank, or an attempt to open one.
  bool has_or_tries(int world_rank) const;
  /// Opens a connection. If the attempt fails, the owner calls connect() again.
  void connect(const SocketAddress& to, const Keys& keys, const AuthClaim& claim);
  /// Takes over an authenticated connection that either side has opened for this purpose. A second connection to a rank
  /// is kept beside the first, since closing it would tell the rank that this process has ended.
  void keep(int world_rank, Socket socket);

 private:
  bool has(int world_rank) const;
  void look();
  void changed(std::uint64_t number, std::uint32_t events);

  ControlThread& thread_;
  Ended ended_;
  // An epoll of its own, which the control thread watches: Asio watches descriptors, and these are open files that have
  // none any more.
  FileDescriptor epoll_;
  std::uint64_t last_number_ = 0;
  std::map<std::uint64_t, LifeLine> lines_;          // by the number that epoll returns
  std::map<int, std::unique_ptr<Dialer>> attempts_;  // by rank
};

}  // namespace sinew
