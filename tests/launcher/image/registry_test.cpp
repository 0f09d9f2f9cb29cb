// Manifests as registries send them, and the words of skopeo 1.9 and podman 4.3 about what failed.
#include "launcher/image/registry.h"

#include "launcher/os/child.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("the size of an image is that of its layers and its configuration") {
  const auto manifest = read_image_manifest(R"({"schemaVersion": 2,
      "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
      "config": {"size": 409, "digest": "sha256:b7"},
      "layers": [{"size": 4086993, "digest": "sha256:73"}, {"size": 7}]})");
  REQUIRE(manifest);
  CHECK(manifest->bytes == 4087409);
  CHECK_FALSE(manifest->is_list);
}

TEST_CASE("in a list of images that of this platform is taken, and attestations are not") {
  const std::string hex(64, 'c');
  const std::string machine = *run_within({"uname", "-m"}, Milliseconds{10'000});
  const std::string here = machine == "x86_64\n" ? "amd64" : "arm64";
  const std::string text = R"({"manifests": [
      {"digest": "sha256:00", "platform": {"os": "unknown", "architecture": "unknown"}},
      {"digest": "sha256:11", "platform": {"os": "windows", "architecture": ")" +
                           here + R"("}},
      {"digest": "sha256:)" +
                           hex + R"(", "platform": {"os": "linux", "architecture": ")" + here +
                           R"("}}]})";
  CHECK(read_image_manifest(text)->other == "sha256:" + hex);
  const auto none = read_image_manifest(R"({"manifests": [{"digest": "sha256:22",
      "platform": {"os": "linux", "architecture": "s390x"}}]})");
  CHECK(none->is_list);
  CHECK(none->other.empty());
}

TEST_CASE("what is no manifest is not taken for an image") {
  CHECK_FALSE(read_image_manifest("<html>login</html>"));
  CHECK_FALSE(read_image_manifest(R"({"layers": 7})"));
  CHECK(read_image_manifest(R"({"layers": [{"size": -5}]})")->bytes == 0);
}

TEST_CASE("an image that does not exist fails on every node; a registry that is down does not") {
  CHECK(is_about_image("Error: reading manifest 9 in docker.io/a: manifest unknown"));
  CHECK(is_about_image("requested access to the resource is denied"));
  CHECK(is_about_image("pull access denied for a, repository does not exist"));
  CHECK(is_about_image("unauthorized: authentication required"));
  CHECK(is_about_image("no image found in manifest list for architecture s390x"));
  CHECK_FALSE(is_about_image("dial tcp 10.0.0.1:443: connect: connection refused"));
  CHECK_FALSE(is_about_image("open /home/images: permission denied"));
  CHECK_FALSE(is_about_image("no space left on device"));
  CHECK_FALSE(is_about_image(""));
}

TEST_CASE("a registry that is not reached is told from one that answers") {
  for (const char* said :
       {"dial tcp 10.0.0.1:443: connect: connection refused",
        "dial tcp 10.0.0.1:443: connect: no route to host",
        "dial tcp: lookup registry.lab: no such host", "dial tcp 10.0.0.1:443: i/o timeout"}) {
    CAPTURE(said);
    CHECK(is_about_connection(said));
  }
  for (const char* said : {"manifest unknown", "unauthorized: authentication required",
                           "received unexpected HTTP status: 503", "no space left on device", ""}) {
    CAPTURE(said);
    CHECK_FALSE(is_about_connection(said));
  }
}

TEST_CASE("words about a failure are one line, without retries and signed addresses") {
  CHECK(plain_words("time=\"2026\" level=warning msg=\"Failed, retrying in 1s ... (1/3)\"\n"
                    "Error: reading manifest 1 in h/a: manifest unknown: manifest unknown\n") ==
        "Error: reading manifest 1 in h/a: manifest unknown: manifest unknown");
  CHECK(plain_words(
            "time=\"2026\" level=fatal msg=\"Error parsing image name \\\"docker://h/a:1\\\": "
            "no such host\"") == "Error parsing image name 'docker://h/a:1': no such host");
  const std::string words =
      plain_words("Error: Get \"https://x.blob.core/a?sig=abc%3D&se=1\": timeout");
  CHECK(words == "Error: Get \"https://x.blob.core/a\": timeout");
}
