import sys
from playwright.sync_api import sync_playwright
with sync_playwright() as p:
    b=p.chromium.launch(executable_path='/usr/bin/chromium',args=['--no-sandbox']); pg=b.new_page(viewport={'width':1500,'height':950})
    pg.goto('file://'+sys.argv[1]+(sys.argv[3] if len(sys.argv)>3 else '')); pg.wait_for_timeout(1500); pg.screenshot(path=sys.argv[2]); b.close()
