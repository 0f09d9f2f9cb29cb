#include "tests/launcher/transport/test_cluster.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include "launcher/transport/link/attach_failure.h"
#include "scheduler/text/text.h"
#include "tests/skip.h"
#include "tools/sandbox/requirements.h"
#include "tools/sandbox/sandbox.h"

namespace muster {
namespace {

void must(const Status& outcome) {
  if (!outcome) throw std::runtime_error(outcome.error().message);
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
  static const Status can = check_requirements();
  if (!can) skip_test(can.error().message);
  return bool(can);
}

TestCluster::TestCluster(int hosts, bool private_home) : dir_(folder_.path() / "cluster") {
  std::filesystem::permissions(folder_.path(), std::filesystem::perms(0755));
  SandboxRequest request;
  request.hosts = hosts;
  request.private_home = private_home;
  must(sandbox_up(SandboxLayout(dir_), request, [] { return false; }));
  const auto made = sandbox_hosts(SandboxLayout(dir_));
  if (!made) throw std::runtime_error(made.error().message);
  for (const SandboxHost& host : *made) {
    NodeAddress node;
    node.id = NodeId{host.name};
    node.transport = TransportKind::ssh;
    node.host = host.address;
    node.user = request.user;
    node.identity_file = file("client_key");
    nodes_.push_back(node);
  }
}

TestCluster::~TestCluster() {
  (void)sandbox_down(SandboxLayout(dir_));
}

std::string TestCluster::on(int node, const std::string& script) const {
  const auto command =
      inside_host(SandboxLayout(dir_), nodes_[node].id.value, {"sh", "-c", script});
  if (!command) throw std::runtime_error(command.error().message);
  return run_here(*command);
}

void TestCluster::verb(const std::string& name, int node) const {
  static const std::map<std::string, Status (*)(const SandboxLayout&, const std::string&)> verbs{
      {"partition", partition_host},
      {"heal", heal_host},
      {"crash", crash_host},
      {"boot", boot_host}};
  must(verbs.at(name)(SandboxLayout(dir_), nodes_[node].id.value));
}

SshSettings TestCluster::settings() const {
  SshSettings settings;
  settings.user = SandboxRequest().user;
  settings.key_folder = (folder_.path() / "no-keys").string();
  settings.host_keys.files = {(folder_.path() / "user_known_hosts").string()};
  settings.own_known_hosts = (folder_.path() / "state" / "known_hosts").string();
  return settings;
}

AgentLaunch fake_agent(const TemporaryFolder& folder, const std::string& build_id,
                       const std::string& body) {
  const auto path = folder.path() / ("agent-" + build_id);
  write_text(path, "#!/bin/sh\n" + body + "\n");
  AgentLaunch launch;
  launch.binary = path.string();
  launch.build_id = build_id;
  launch.controller_id = "c0ffee";
  return launch;
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

std::string text_of(const ConnectProfile& profile) {
  std::vector<std::string> phases;
  for (const auto& [phase, us] : profile) {
    phases.push_back(phase + " " + std::to_string(us / 1000) + " ms");
  }
  return joined(phases);
}

}  // namespace muster
