// Names to addresses without holding up the one thread: getaddrinfo runs on a few helper threads.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "scheduler/model/link.h"

namespace muster {

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
using ResolveResult = std::variant<Endpoints, LinkFailure>;

class HostResolver {
 public:
  explicit HostResolver(boost::asio::io_context& io);
  ~HostResolver();  // waits for the look-ups that run, drops those that wait

  // Addresses in numbers are answered without a thread. `done` comes from the io_context.
  void resolve(const std::string& host, int port, std::function<void(ResolveResult)> done);

 private:
  boost::asio::io_context& io_;
  boost::asio::thread_pool threads_;
};

}  // namespace muster
