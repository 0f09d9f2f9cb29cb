// What a cluster file says about images:
//
//   containers:
//     allow: ["mcr.microsoft.com/*", "docker.io/*"]   # whole names; default: every image
//     pull: nodes                       # from the registry, or `controller`: it brings them
//   mirrors: {docker.io/: registry.lab:5000/hub/}     # beginnings of whole names
//   environments: {AzureML-acpt-pytorch-2.8: registry.lab:5000/acpt:2.8, ACPT_Nebula: host}
//   unknown_environment: host           # or refuse
#pragma once

#include "scheduler/model/image_settings.h"
#include "templates/yaml/value.h"

namespace muster {

ImageSettings read_images(MapReader& file);

// The files of a site as one: the first that says a thing counts, and what any of them lists as
// allowed.
void add_images(ImageSettings& to, ImageSettings more);

}  // namespace muster
