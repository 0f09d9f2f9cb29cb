// Test support: a namespace cluster that lives as long as the object, a stand-in for the agent's
// program, and a transport that is driven until it answers.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/transport/link/transport.h"
#include "launcher/transport/ssh/host_key_store.h"

namespace muster {

// Removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_text(const std::filesystem::path& path);
void write_text(const std::filesystem::path& path, const std::string& text);

// Standard output of a command of this machine; its exit code must be 0.
std::string run_here(const std::vector<std::string>& argv);

class TestCluster {
 public:
  // True when this process may make network namespaces; says why the test is skipped otherwise.
  static bool permitted();

  explicit TestCluster(int hosts, bool private_home = false);
  ~TestCluster();
  TestCluster(const TestCluster&) = delete;

  const std::filesystem::path& dir() const { return dir_; }
  std::string file(const std::string& name) const { return (dir_ / name).string(); }
  const std::vector<NodeAddress>& nodes() const { return nodes_; }
  std::string on(int node, const std::string& script) const;  // as root, in the host
  void verb(const std::string& name, int node) const;         // partition, heal, crash, boot
  SshSettings settings() const;                               // key files and state below dir()

 private:
  TemporaryFolder folder_;
  std::filesystem::path dir_;
  std::vector<NodeAddress> nodes_;
};

// A program that prints the marker and then sends back what it gets. `body` replaces that.
AgentLaunch fake_agent(const TemporaryFolder& folder, const std::string& build_id,
                       const std::string& body = "echo MUSTER-ATTACHED; exec cat");

// Runs the io_context until `finished`, at most `limit`; false when time was up.
bool drive(boost::asio::io_context& io, const std::function<bool()>& finished,
           std::chrono::seconds limit = std::chrono::seconds(60));

// One of the two kinds of ssh as the Transport to nodes of which no ssh configuration says
// anything.
template <class Ssh>
struct ToNodes final : Transport {
  template <class... Others>
  ToNodes(boost::asio::io_context& io, const SshSettings& settings, Others... others)
      : host_keys(settings.host_keys), ssh(io, settings, std::move(others)...) {}
  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override {
    ssh.connect(SshTarget{node, host_keys}, launch, std::move(done));
  }
  HostKeyPolicy host_keys;
  Ssh ssh;
};

// Connects to all nodes at once; results in the order of `nodes`.
std::vector<ConnectResult> connect_all(boost::asio::io_context& io, Transport& transport,
                                       const std::vector<NodeAddress>& nodes,
                                       const AgentLaunch& launch);
ConnectResult connect_one(boost::asio::io_context& io, Transport& transport,
                          const NodeAddress& node, const AgentLaunch& launch);

// The failure's message; "connected" when there was none.
std::string message_of(const ConnectResult& result);
bool failed_with(const ConnectResult& result, LinkFailureKind kind);

// "tcp 1 ms, kex 4 ms, …"
std::string text_of(const ConnectProfile& profile);

// What a link that echoes sends back for `bytes`, read to the same size.
std::string echo(boost::asio::io_context& io, Link& link, const std::string& bytes);

}  // namespace muster
