#include "launcher/transport/local_shell.h"

#include <array>

#include "launcher/transport/link/child_process.h"

namespace muster {
namespace {

class LocalShell final : public RemoteShell {
 public:
  explicit LocalShell(boost::asio::io_context& io) : io_(io) {}

  std::unique_ptr<RemoteProcess> run(const std::string& command) override {
    const std::array<std::string, 3> argv{"/bin/sh", "-c", command};
    return start_child(io_, argv);
  }

 private:
  boost::asio::io_context& io_;
};

}  // namespace

std::shared_ptr<RemoteShell> make_local_shell(boost::asio::io_context& io) {
  return std::make_shared<LocalShell>(io);
}

}  // namespace muster
