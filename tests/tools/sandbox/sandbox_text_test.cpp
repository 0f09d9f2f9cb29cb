// The pure parts of a sandbox: names, addresses, texts.
#include "cli/client/targets.h"
#include "tests/catch.h"
#include "tools/sandbox/access_files.h"
#include "tools/sandbox/fake_gpus.h"
#include "tools/sandbox/network.h"
#include "tools/sandbox/sandbox.h"
#include "tools/sandbox/state.h"

namespace muster {
namespace {

const SandboxLayout layout("/srv/box");

SandboxState a_sandbox_of(int hosts) {
  SandboxState state;
  state.user = "ml";
  state.subnet = Subnet(*parse_address("10.64.4.0"));
  state.is_up = true;
  state.hosts = sandbox_host_names(hosts);
  return state;
}

TEST_CASE("hosts are numbered with as many digits as the last one needs") {
  CHECK(sandbox_host_names(3) == std::vector<std::string>{"h01", "h02", "h03"});
  CHECK(sandbox_host_names(100).front() == "h001");
  CHECK(sandbox_host_names(1000).back() == "h1000");
}

TEST_CASE("names of devices follow from the folder and fit the kernel's limit") {
  CHECK(layout.prefix() == SandboxLayout("/srv/box").prefix());
  CHECK(layout.prefix() != SandboxLayout("/srv/box2").prefix());
  for (const std::string& host : sandbox_host_names(max_sandbox_hosts)) {
    CHECK(layout.cable(host).size() <= 15);
  }
  CHECK(layout.network_name("h07") == layout.prefix() + "-h07");
}

TEST_CASE("every host of the largest sandbox has an address inside its subnet") {
  const Subnet subnet(*parse_address("10.64.4.0"));
  CHECK(address_text(subnet.gateway()) == "10.64.4.1");
  CHECK(address_text(subnet.host(0)) == "10.64.4.11");
  CHECK(subnet.host(max_sandbox_hosts - 1) < subnet.base() + 1023);
}

TEST_CASE("a subnet that an interface is in is not chosen") {
  const auto first = choose_subnet(5, {});
  REQUIRE(first);
  CHECK(address_text(first->base()) == "10.64.20.0");
  const auto second = choose_subnet(5, {first->host(500), *parse_address("192.168.0.1")});
  REQUIRE(second);
  CHECK(address_text(second->base()) == "10.64.24.0");
}

TEST_CASE("a machine without a free subnet is told so") {
  std::vector<Address> used;
  for (Address base = *parse_address("10.64.0.0"); base < *parse_address("10.128.0.0");
       base += 1024) {
    used.push_back(base + 7);
  }
  CHECK_FALSE(choose_subnet(5, used));
  used.erase(used.begin() + 3000);
  CHECK(choose_subnet(5, used)->base() == *parse_address("10.64.0.0") + 3000 * 1024);
}

TEST_CASE("a sandbox's state is read back as it was written") {
  SandboxState state = a_sandbox_of(12);
  state.private_home = true;
  const auto read = decode_state(encode_state(state));
  REQUIRE(read);
  CHECK(read->user == "ml");
  CHECK(read->private_home);
  CHECK(read->is_up);
  CHECK(read->hosts == state.hosts);
  CHECK(read->address_of("h12") == state.subnet.host(11));
  CHECK_FALSE(read->address_of("h13"));
}

TEST_CASE("a sandbox's state tells the simulated GPUs, and one without them says nothing of it") {
  SandboxState state = a_sandbox_of(1);
  CHECK(encode_state(state).find("gpus") == std::string::npos);
  CHECK(!decode_state(encode_state(state))->gpus);
  state.gpus = 0;
  CHECK(decode_state(encode_state(state))->gpus == 0);
  state.gpus = 8;
  CHECK(decode_state(encode_state(state))->gpus == 8);
}

TEST_CASE("sessions of a host learn where its GPUs are, when they are simulated") {
  SandboxState state = a_sandbox_of(2);
  CHECK_THAT(sshd_config_text(layout, state, "h02"), !ContainsSubstring("SetEnv"));
  state.gpus = 2;
  CHECK_THAT(sshd_config_text(layout, state, "h02"),
             ContainsSubstring("\nSetEnv MUSTER_SYSROOT=/srv/box/h02/sysroot\n"));
}

TEST_CASE("a simulated GPU is described as the driver describes one") {
  CHECK(gpu_address(0) == "0000:01:00.0");
  CHECK(gpu_address(max_fake_gpus - 1) == "0000:40:00.0");
  CHECK(gpu_information("h12", 15) ==
        "Model: \t\t NVIDIA A100-SXM4-80GB\n"
        "IRQ:   \t\t 143\n"
        "GPU UUID: \t GPU-00000012-0000-4000-8000-00000000000f\n"
        "Video BIOS: \t 92.00.36.00.01\n"
        "Bus Type: \t PCIe\n"
        "DMA Size: \t 47 bits\n"
        "DMA Mask: \t 0x7fffffffffff\n"
        "Bus Location: \t 0000:10:00.0\n"
        "Device Minor: \t 15\n"
        "GPU Excluded:\t No\n");
}

TEST_CASE("a state that muster did not write is refused, not followed") {
  CHECK_FALSE(decode_state(""));
  CHECK_FALSE(decode_state("[]"));
  CHECK_FALSE(decode_state(R"({"version": 2})"));
  // Names of hosts become paths that are removed.
  std::string hostile = encode_state(a_sandbox_of(1));
  hostile.replace(hostile.find("h01"), 3, "../");
  CHECK_FALSE(decode_state(hostile));
}

TEST_CASE("the network of two hosts is one batch of ip") {
  const std::string& name = layout.prefix();
  CHECK(network_batch(layout, a_sandbox_of(2)) ==
        "link add " + name + " type bridge\naddr add 10.64.4.1/22 dev " + name + "\nlink set " +
            name + " up\nnetns add " + name + "-h01\nlink add " + name +
            "01 type veth peer name eth0 netns " + name + "-h01\nlink set " + name + "01 master " +
            name + " up\nnetns add " + name + "-h02\nlink add " + name +
            "02 type veth peer name eth0 netns " + name + "-h02\nlink set " + name + "02 master " +
            name + " up\n");
}

TEST_CASE("the cluster file names the account, its key and every host") {
  CHECK(cluster_file_text(layout, a_sandbox_of(2)) ==
        "default: sandbox\n"
        "compute:\n"
        "  sandbox:\n"
        "    transport: ssh\n"
        "    user: ml\n"
        "    identity_file: /srv/box/client_key\n"
        "    nodes:\n"
        "      - {name: h01, host: 10.64.4.11}\n"
        "      - {name: h02, host: 10.64.4.12}\n");
}

TEST_CASE("muster finds the cluster file of a user's sandbox") {
  CHECK(SandboxLayout(default_sandbox(1234)).cluster_file() == sandbox_cluster_file(1234));
}

TEST_CASE("known hosts are listed by name and address without the key's comment") {
  CHECK(known_hosts_text(a_sandbox_of(2), {{"h01", "ssh-ed25519 AAAA h01\n"}}) ==
        "h01,10.64.4.11 ssh-ed25519 AAAA\n");
}

}  // namespace
}  // namespace muster
