#include "launcher/transport/ssh/host_resolver.h"

#include <netdb.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <utility>

namespace muster {
namespace {

constexpr std::size_t helper_threads = 4;  // look-ups wait on a name server, they cost no CPU

LinkFailure unresolved(const std::string& host, int error) {
  const bool passing = error == EAI_AGAIN;
  return {passing ? LinkFailureKind::unreachable : LinkFailureKind::unknown_host,
          host + ": the name does not resolve (" + ::gai_strerror(error) +
              "); check its spelling in the cluster file, or give an address"};
}

ResolveResult look_up(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) return unresolved(host, error);
  Endpoints endpoints;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    boost::asio::ip::tcp::endpoint endpoint;
    if (each->ai_addrlen > endpoint.capacity()) continue;
    endpoint.resize(each->ai_addrlen);
    std::memcpy(endpoint.data(), each->ai_addr, each->ai_addrlen);
    endpoints.push_back(endpoint);
  }
  ::freeaddrinfo(list);
  return endpoints;
}

}  // namespace

HostResolver::HostResolver(boost::asio::io_context& io) : io_(io), threads_(helper_threads) {}

HostResolver::~HostResolver() {
  threads_.stop();
  threads_.join();
}

void HostResolver::resolve(const std::string& host, int port,
                           std::function<void(ResolveResult)> done) {
  boost::system::error_code not_numbers;
  const auto address = boost::asio::ip::make_address(host, not_numbers);
  if (!not_numbers) {
    const Endpoints endpoints{{address, static_cast<unsigned short>(port)}};
    boost::asio::post(io_, [done = std::move(done), endpoints] { done(endpoints); });
    return;
  }
  // The guard keeps the io_context running until the answer is in.
  auto guard = boost::asio::make_work_guard(io_);
  boost::asio::post(threads_, [host, port, done = std::move(done), guard]() mutable {
    auto result = look_up(host, port);
    boost::asio::post(guard.get_executor(),
                      [done = std::move(done), result = std::move(result)] { done(result); });
  });
}

}  // namespace muster
