#pragma once

/// Marks what a layer's shared library gives to others; everything else is hidden.
#define SINEW_API [[gnu::visibility("default")]]
