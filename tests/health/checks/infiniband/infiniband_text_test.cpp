#include <random>

#include "health/checks/infiniband/port.h"
#include "scheduler/text/text.h"
#include "tests/catch.h"

using namespace muster;

// Forms: Linux drivers/infiniband/core/sysfs.c, drivers/pci/pci-sysfs.c, net/ipv4/fib_trie.c.
TEST_CASE("states are a number and a word") {
  CHECK(parse_numbered_state("4: ACTIVE\n") == NumberedState{4, "ACTIVE"});
  CHECK(parse_numbered_state("7: Phy Test\n") == NumberedState{7, "Phy Test"});
  for (const char* text : {"", "4", "4:", ": ACTIVE", "x: ACTIVE", "-1: ACTIVE", "4: AC\x01TIVE",
                           "99999999999999: DOWN", "ACTIVE"}) {
    INFO(text);
    CHECK_FALSE(parse_numbered_state(text));
  }
  CHECK_FALSE(parse_numbered_state("4: " + std::string(100000, 'A')));
}

TEST_CASE("a rate is a number, lanes and a speed") {
  CHECK(parse_link_rate("400 Gb/sec (4X NDR)\n") == LinkRate{400, 4, "NDR"});
  CHECK(parse_link_rate("2.5 Gb/sec (1X)\n") == LinkRate{2.5, 1, ""});
  CHECK(parse_link_rate("1200 Gb/sec (12X HDR)") == LinkRate{1200, 12, "HDR"});
  for (const char* text :
       {"", "400", "400 Gb/sec", "400 Gb/sec (4X NDR", "400 Gb/sec 4X NDR)", "0 Gb/sec (4X)",
        "-400 Gb/sec (4X NDR)", "nan Gb/sec (4X NDR)", "inf Gb/sec (4X NDR)", "1e3 Gb/sec (4X)",
        "400 Mb/sec (4X NDR)", "400 Gb/sec (0X NDR)", "400 Gb/sec (X NDR)", "400 Gb/sec ( 4X NDR)",
        "400 Gb/sec (4X NDR) more", "400 Gb/sec ()", "400 Gb/sec ("}) {
    INFO(text);
    CHECK_FALSE(parse_link_rate(text));
  }
}

TEST_CASE("widths and speeds of links") {
  CHECK(parse_lanes("4X") == 4);
  CHECK_FALSE(parse_lanes("4"));
  CHECK_FALSE(parse_lanes("X"));
  CHECK(parse_gt_per_s("32.0 GT/s PCIe\n") == 32.0);
  CHECK(parse_gt_per_s("2.5 GT/s") == 2.5);
  CHECK_FALSE(parse_gt_per_s("Unknown"));
  CHECK_FALSE(parse_gt_per_s("Unknown speed"));
}

TEST_CASE("counters have 64 bits and nothing else") {
  CHECK(parse_counter("18446744073709551615\n") == ~std::uint64_t{0});
  CHECK(parse_counter("0") == 0u);
  for (const char* text : {"", "-1", "N/A (no PMA)", "12 13", "0x10", "18446744073709551616"}) {
    INFO(text);
    CHECK_FALSE(parse_counter(text));
  }
}

TEST_CASE("partition keys and global ids") {
  CHECK(parse_partition_key("0xffff\n") == PartitionKey{0x7fff, true});
  CHECK(parse_partition_key("0x7fff") == PartitionKey{0x7fff, false});
  CHECK_FALSE(parse_partition_key("ffff"));
  CHECK_FALSE(parse_partition_key("0x1ffff"));
  CHECK(parse_global_id("fe80:0000:0000:0000:b83f:d203:00c5:0001\n") == 0xb83fd20300c50001);
  for (const char* text :
       {"", "fe80::1", "fe80:0000:0000:0000:b83f:d203:00c5:000",
        "fe80:0000:0000:0000:b83f:d203:00c5:000g", "fe80-0000-0000-0000-b83f-d203-00c5-0001"}) {
    INFO(text);
    CHECK_FALSE(parse_global_id(text));
  }
}

TEST_CASE("default routes are those to everywhere that are up") {
  const std::string head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n";
  CHECK(parse_default_interfaces(head + "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
                                        "ib0\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n"
                                        "bond0\t00000000\t0\t0001\t0\t0\t9\t00000000\n") ==
        std::set<std::string>{"eth0", "bond0"});
  CHECK(parse_default_interfaces(head + "*\t00000000\t0\t0201\t0\t0\t0\t00000000").empty());
  CHECK(parse_default_interfaces(head + "eth0\t00000000\t0\t0002\t0\t0\t0\t00000000").empty());
  CHECK(parse_default_interfaces(head + "eth0\t00000000\t0\t0003\t0").empty());
  CHECK(parse_default_interfaces(head + "half\t00000000\t0\t0003\t0\t0\t0\t00000080").empty());
  CHECK(parse_default_interfaces(std::string(1 << 20, '\n')).empty());
  CHECK(parse_default_interfaces("").empty());
}

TEST_CASE("a value of a uevent") {
  const char* text = "DRIVER=mlx5_core\nPCI_SLOT_NAMES=no\nPCI_SLOT_NAME=0000:1a:00.0\n";
  CHECK(value_in_lines(text, "PCI_SLOT_NAME", '=') == std::string_view("0000:1a:00.0"));
  CHECK_FALSE(value_in_lines(text, "PCI_SLOT", '='));
  CHECK_FALSE(value_in_lines("", "PCI_SLOT_NAME", '='));
}

TEST_CASE("a text is shown short and printable") {
  CHECK(shown_text(" 4: ACTIVE\n") == "'4: ACTIVE'");
  CHECK(shown_text(std::string("\x00\x01\xff", 3)) == "'" + std::string(3, '?') + "'");
  CHECK(shown_text(std::string(1 << 20, 'a')).size() < 80);
}

TEST_CASE("no text breaks a parser") {
  const std::string samples[] = {"400 Gb/sec (4X NDR)",
                                 "4: ACTIVE",
                                 "0xffff",
                                 "32.0 GT/s PCIe",
                                 "fe80:0000:0000:0000:b83f:d203:00c5:0001",
                                 "eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\n",
                                 "18446744073709551615"};
  std::mt19937_64 random(7);
  for (int n = 0; n < 20000; ++n) {
    std::string text = samples[random() % std::size(samples)];
    for (auto times = random() % 4; times > 0 && !text.empty(); --times) {
      const std::size_t at = random() % text.size();
      const auto what = random() % 3;
      if (what == 0) text[at] = static_cast<char>(random());
      if (what == 1) text.erase(at, random() % 8);
      if (what == 2) text.insert(at, text.substr(0, random() % 8));
    }
    parse_numbered_state(text);
    parse_gt_per_s(text);
    parse_partition_key(text);
    parse_global_id(text);
    parse_default_interfaces(text);
    shown_text(text);
    const auto rate = parse_link_rate(text);
    if (rate) CHECK((rate->gbps > 0 && rate->lanes > 0));
  }
}
