#include "tests/launcher/transport/test_cluster.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "launcher/transport/shell_quote.h"

namespace muster {
namespace {

std::string cluster_script() {
  return std::string(MUSTER_SOURCE_DIR) + "/scripts/cluster";
}

int run_quietly(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str());
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "muster-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string run_here(const std::vector<std::string>& argv) {
  const std::string command = shell_command(argv) + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  for (std::size_t size; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), size);
  }
  if (::pclose(pipe) != 0) throw std::runtime_error(command + ": " + output);
  return output;
}

bool TestCluster::permitted() {
  static const bool can = ::geteuid() == 0 && run_quietly("unshare -n -m -u -p -f true") == 0 &&
                          run_quietly("command -v /usr/sbin/sshd ip") == 0;
  if (!can) std::cout << "skipped: needs root and network namespaces\n";
  return can;
}

TestCluster::TestCluster(int hosts, const std::vector<std::string>& options)
    : dir_(folder_.path() / "cluster") {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  std::vector<std::string> argv{cluster_script(),      "up",    "--hosts",
                                std::to_string(hosts), "--dir", dir_.string()};
  argv.insert(argv.end(), options.begin(), options.end());
  run_here(argv);
  std::istringstream lines(run_here({cluster_script(), "list", "--dir", dir_.string()}));
  for (std::string name, address, state; lines >> name >> address >> state;) {
    NodeAddress node;
    node.id = NodeId{name};
    node.transport = TransportKind::ssh;
    node.host = address;
    node.user = "mustertest";
    node.identity_file = file("client_key");
    nodes_.push_back(node);
  }
}

TestCluster::~TestCluster() {
  run_quietly(shell_command(
      std::vector{cluster_script(), std::string("down"), std::string("--dir"), dir_.string()}));
}

std::string TestCluster::on(int node, const std::string& script) const {
  return run_here({cluster_script(), "exec", "--dir", dir_.string(), nodes_[node].id.value, "--",
                   "sh", "-c", script});
}

void TestCluster::verb(const std::string& name, int node) const {
  run_here({cluster_script(), name, "--dir", dir_.string(), nodes_[node].id.value});
}

SshSettings TestCluster::settings() const {
  SshSettings settings;
  settings.user = "mustertest";
  settings.key_folder = (folder_.path() / "no-keys").string();
  settings.host_keys.files = {(folder_.path() / "user_known_hosts").string()};
  settings.own_known_hosts = (folder_.path() / "state" / "known_hosts").string();
  return settings;
}

AgentLaunch fake_agent(const TemporaryFolder& folder, const std::string& build_id,
                       const std::string& body) {
  const auto path = folder.path() / ("agent-" + build_id);
  write_text(path, "#!/bin/sh\n" + body + "\n");
  return {path.string(), build_id, "c0ffee", ""};
}

bool drive(boost::asio::io_context& io, const std::function<bool()>& finished,
           std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!finished()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io.restart();
    io.run_one_for(std::chrono::milliseconds(50));
  }
  return true;
}

std::vector<ConnectResult> connect_all(boost::asio::io_context& io, Transport& transport,
                                       const std::vector<NodeAddress>& nodes,
                                       const AgentLaunch& launch) {
  std::vector<ConnectResult> results(nodes.size());
  std::size_t answered = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    transport.connect(nodes[i], launch, [&results, &answered, i](ConnectResult result) {
      results[i] = std::move(result);
      ++answered;
    });
  }
  if (!drive(
          io, [&] { return answered == nodes.size(); }, std::chrono::seconds(120))) {
    throw std::runtime_error("a transport did not answer");
  }
  return results;
}

ConnectResult connect_one(boost::asio::io_context& io, Transport& transport,
                          const NodeAddress& node, const AgentLaunch& launch) {
  return std::move(connect_all(io, transport, {node}, launch).front());
}

std::string message_of(const ConnectResult& result) {
  const auto* failure = std::get_if<LinkFailure>(&result);
  return failure == nullptr ? "connected" : failure->message;
}

bool failed_with(const ConnectResult& result, LinkFailureKind kind) {
  const auto* failure = std::get_if<LinkFailure>(&result);
  return failure != nullptr && failure->kind == kind;
}

std::string echo(boost::asio::io_context& io, Link& link, const std::string& bytes) {
  // Shared: the link keeps its handlers.
  const auto received = std::make_shared<std::string>();
  const auto closed = std::make_shared<std::string>();
  link.start({[received](std::span<const std::byte> part) {
                received->append(reinterpret_cast<const char*>(part.data()), part.size());
              },
              [closed](const LinkFailure& failure) { *closed = failure.message; }});
  link.write(bytes);
  drive(io, [&] { return received->size() >= bytes.size() || !closed->empty(); });
  return *received + *closed;
}

}  // namespace muster
